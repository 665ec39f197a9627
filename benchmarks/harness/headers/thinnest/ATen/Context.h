// In place of <ATen/Context.h>, which every operator's header includes and none of them needs.
#pragma once
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>
