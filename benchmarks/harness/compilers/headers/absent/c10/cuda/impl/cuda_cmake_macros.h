// For a torch that was built without CUDA and therefore lacks this file; searched last, so any torch's own file wins.
#pragma once
#define C10_CUDA_BUILD_SHARED_LIBS
