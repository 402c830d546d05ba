# What every target of the project shares, and the one way to declare a folder of src/ as a library.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")   # g1: lines, for stack traces and profiles, at 3/4 of the time
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(NIBBLE_CCACHE ccache)
if(NIBBLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness ccache keeps nothing that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${NIBBLE_CCACHE})
endif()

# For targets with a precompiled header: what ccache asks for, and without what gcc 12 finds inside a precompiled std::string.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(NIBBLE_PRECOMPILED_OPTIONS -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
else()
  set(NIBBLE_PRECOMPILED_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
endif()

# Contraction would make a result depend on the compiler's mood; kernels that want FMA ask for it by name.
set(NIBBLE_WARNINGS -ffp-contract=off -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion
    -Wno-missing-field-initializers)   # arguments are named, and what is not named has its default
if(NIBBLE_WERROR)
  list(APPEND NIBBLE_WARNINGS -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${NIBBLE_WARNINGS}>")
if(NIBBLE_CHECKS)
  add_compile_definitions(NIBBLE_CHECKS=1)
endif()
if(NIBBLE_SANITIZE)
  add_compile_options(-fsanitize=${NIBBLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)   # lines are enough, and compile faster
  add_link_options(-fsanitize=${NIBBLE_SANITIZE})
endif()

# nibble_library(NAME MAY_INCLUDE folders... HEADERS files... [SOURCES files...] [COLD files...] [LINK libraries...])
# COLD sources run once or wait for people: they are compiled quickly rather than to run fast.
# MAY_INCLUDE is both what is linked and what tools/check_layers.py lets the folder's files include.
function(nibble_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;COLD;HEADERS;MAY_INCLUDE;LINK" ${ARGN})
  set_source_files_properties(${ARG_COLD} PROPERTIES COMPILE_OPTIONS $<IF:$<CONFIG:RelWithDebInfo>,-O1,-O0>)
  list(APPEND ARG_SOURCES ${ARG_COLD})
  if(ARG_SOURCES)
    add_library(nibble_${name} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(nibble_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_sources(nibble_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${ARG_HEADERS})
  target_include_directories(nibble_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(nibble_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)   # each header must compile alone
  foreach(dep IN LISTS ARG_MAY_INCLUDE)
    target_link_libraries(nibble_${name} ${scope} nibble_${dep})
  endforeach()
  if(ARG_LINK)
    target_link_libraries(nibble_${name} ${scope} ${ARG_LINK})
  endif()
endfunction()
