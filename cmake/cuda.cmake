# Kernels for NVIDIA's GPUs, by nvcc, ahead of time. The runtime library is linked statically; the driver is looked for when
# the program runs, so one program serves machines with and without.
enable_language(CUDA)
add_compile_definitions(SNUG_CUDA SNUG_CUDA_DEVICE)
# Code for every generation that this nvcc knows, and PTX of the last, of which the driver makes code for later ones.
if(NOT DEFINED SNUG_CUDA_ARCHITECTURES)
  set(SNUG_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
    list(PREPEND SNUG_CUDA_ARCHITECTURES 70-real)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(TRANSFORM SNUG_CUDA_ARCHITECTURES REPLACE "^90$" "90-real")
    list(APPEND SNUG_CUDA_ARCHITECTURES 100-real 120)
  endif()
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
