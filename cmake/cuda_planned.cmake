# No device is built, and still every build plans for GPUs that are elsewhere: what a kernel takes, and the scratch that it
# wants, stand in its .cu file, so these are compiled by the C++ compiler, without what runs on a GPU. Nothing of C++'s
# runtime is used, so that programs in C link the library as before.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()
# One of another make may not know this one's options.
if(CMAKE_CXX_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL CMAKE_C_COMPILER_ID)
  add_compile_definitions(SNUG_CUDA SNUG_CUDA_PLANNED)
  list(FILTER SNUG_CUDA_SOURCES EXCLUDE REGEX "/src/device/cuda/")
  set(SNUG_CUDA_OPTIONS -std=gnu++17 -O1 -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wno-unknown-pragmas
                        -Wno-missing-field-initializers -Wno-unused)
  set_source_files_properties(${SNUG_CUDA_SOURCES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;${SNUG_CUDA_OPTIONS}")
else()
  message(STATUS "there is no C++ compiler beside the C compiler: plans for GPUs that are elsewhere are left out, and "
                 "refused with a sentence")
  set(SNUG_CUDA_SOURCES)
endif()
