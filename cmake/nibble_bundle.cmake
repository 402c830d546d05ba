# `cmake --build --preset cuda --target bundle`: build/cuda/bundle/ holds nibble and all it needs but the C library and
# the driver, so that it runs on a machine with neither a package manager nor our packages.

if(NIBBLE_BUNDLE)
  set(bundle ${CMAKE_BINARY_DIR}/bundle)
  add_custom_target(bundle
    COMMAND ${CMAKE_COMMAND} "-DBINARIES=$<TARGET_FILE:nibble>;$<TARGET_FILE:nibble_gpu_check>;$<TARGET_FILE:nibble_gpu_bench>" -DTO=${bundle}
            -DSTRIP=${CMAKE_STRIP} -P ${PROJECT_SOURCE_DIR}/cmake/make_bundle.cmake
    DEPENDS nibble nibble_gpu_check nibble_gpu_bench VERBATIM)
  foreach(target nibble nibble_gpu_check nibble_gpu_bench)
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/lib")
    # DT_RPATH, not RUNPATH: it must also serve what the libraries beside the binary need themselves.
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  endforeach()
endif()
