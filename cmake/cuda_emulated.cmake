# The emulated GPU: kernels are C++, compiled for this machine, since it is this one that runs them: fused multiply-adds
# are an instruction then, and three times faster.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 ${SNUG_DEBUG_INFO}")
enable_language(CXX)
add_compile_definitions(SNUG_CUDA SNUG_CUDA_EMULATED)
set(SNUG_CUDA_OPTIONS -std=gnu++17 -march=native -Wno-unknown-pragmas -Wno-missing-field-initializers)
list(FILTER SNUG_CUDA_SOURCES EXCLUDE REGEX "/src/device/cuda/") # the real one
set_source_files_properties(${SNUG_CUDA_SOURCES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;${SNUG_CUDA_OPTIONS}")
file(GLOB emulation CONFIGURE_DEPENDS src/device/cuda/*.cpp)
set_source_files_properties(${emulation} PROPERTIES COMPILE_OPTIONS "${SNUG_CUDA_OPTIONS}")
list(APPEND SNUG_CUDA_SOURCES ${emulation})

# The same kernels with a call before each access, for what watches them (device/cuda/emulate_watch.h): as they are
# written, since a GPU's compiler puts no neighbours together either. What is linked with these takes none of the
# others.
if(NOT SNUG_SANITIZE)
  set(SNUG_WATCH_OPTIONS -fsanitize=thread -O1 -fno-tree-vectorize -fno-store-merging)
  set(watched ${SNUG_CUDA_SOURCES})
  list(FILTER watched EXCLUDE REGEX "[.]cpp$")
  add_library(snug-watched OBJECT EXCLUDE_FROM_ALL ${watched})
  target_include_directories(snug-watched PRIVATE src include)
  target_compile_options(snug-watched PRIVATE ${SNUG_WATCH_OPTIONS})
endif()
