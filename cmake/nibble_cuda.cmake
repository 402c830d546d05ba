# The CUDA toolkit, where it is asked for.

if(NIBBLE_CUDA)
  # Kernels run on what has been certified (src/cuda/architecture.cc) and compile for what comes next.
  set(CMAKE_CUDA_ARCHITECTURES 90a-real 100a-real 103a-real 120a-real CACHE STRING "Compute capabilities; 90a-real alone builds quickest")
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
  endif()
  if(NIBBLE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${NIBBLE_CCACHE})
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)   # CMake 3.25 does not know how nvcc 13 is asked
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
  find_package(CUDAToolkit 13 REQUIRED)
endif()
