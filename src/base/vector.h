/* Compiles a function for several instruction sets and picks one at load time. For loops over elements, whose
 * bits are the same in each. And how formulas of single numbers are declared, which the kernels of every kind
 * of device share, those that are compiled as C++ too. */
#pragma once

/* A sanitizer is not ready yet when the choice is made. */
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__) || defined(__SANITIZE_ADDRESS__) ||     \
    defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES
#elif __GNUC__ >= 12
#define VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else /* which does not know the levels of x86-64 */
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#endif
#ifdef __CUDACC__
#define VECTOR_INLINE static __host__ __device__ __forceinline__
#else
#define VECTOR_INLINE static inline __attribute__((always_inline))
#endif
