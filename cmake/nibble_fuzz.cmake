# One way to declare a fuzz target. Its entry is libFuzzer's, its seeds are files in tests/fuzz/corpus/NAME/.

add_custom_target(fuzzers)   # those that .ci/run builds each time

# nibble_fuzz_target(NAME SOURCE file [LIBS folders...] [LINK libraries...] [LARGE])
# LARGE: needs most of the tree, so it is left to `.ci/run all`; its seeds are replayed in every build all the same.
# With NIBBLE_FUZZ (clang; preset `fuzz`) NAME is a libFuzzer binary. Otherwise the same entry is linked with a main that
# replays the seeds, and runs as a test labelled `fuzz`: a seed that once broke a parser is tried in every build.
function(nibble_fuzz_target name)
  cmake_parse_arguments(ARG "LARGE" "SOURCE" "LIBS;LINK" ${ARGN})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(NOT EXISTS ${corpus})
    message(FATAL_ERROR "fuzz target ${name} has no seeds: put some in ${corpus}")
  endif()
  add_executable(${name} ${ARG_SOURCE})
  target_compile_definitions(${name} PRIVATE NIBBLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(lib IN LISTS ARG_LIBS)
    target_link_libraries(${name} PRIVATE nibble_${lib})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(NOT ARG_LARGE)
    add_dependencies(fuzzers ${name})
  endif()
  if(NIBBLE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)   # .ci/run runs them all
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME fuzz.${name} COMMAND ${name} ${corpus})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
  endif()
endfunction()

# Coverage must be compiled into the code under test, not into the targets alone.
if(NIBBLE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "NIBBLE_FUZZ needs clang: use `cmake --preset fuzz`")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
