# Kernels for NVIDIA's GPUs, by nvcc, ahead of time. The runtime library is linked statically; the driver is looked for when
# the program runs, so one program serves machines with and without.
enable_language(CUDA)
add_compile_definitions(SNUG_CUDA SNUG_CUDA_DEVICE)
# Those of which every kernel is known to compile without a spill; the driver makes code for other generations from their
# PTX. Of 12.0 some kernels spill a few bytes, and 8.x and 10.0 were not tried (docs/gpu.md).
if(NOT DEFINED SNUG_CUDA_ARCHITECTURES)
  set(SNUG_CUDA_ARCHITECTURES 75 90)
endif()
set(CMAKE_CUDA_ARCHITECTURES ${SNUG_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
# No contraction: the bits are the CPU's. A kernel that spills, or has a stack, would make the driver keep memory for every
# thread that a GPU can hold: it does not compile.
set(SNUG_CUDA_OPTIONS -fmad=false -Xptxas=-warn-spills,-warn-lmem-usage,-Werror)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND SNUG_CUDA_OPTIONS --compress-mode=size)
endif()
file(GLOB device CONFIGURE_DEPENDS src/device/cuda/device_cuda.cu)
set_source_files_properties(${SNUG_CUDA_SOURCES} PROPERTIES COMPILE_OPTIONS "${SNUG_CUDA_OPTIONS}")
