// In place of <ATen/Context.h>, which every operator's header includes and none of them needs; the source may need it.
#pragma once
#include "kbench_needs.h"
#ifdef KBENCH_NEEDS_CONTEXT
#include_next <ATen/Context.h>
#else
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>
#endif
