# Copies BINARIES, stripped, into TO, and the shared libraries that they need into TO/lib, all but the C library's.

file(REMOVE_RECURSE ${TO})
file(MAKE_DIRECTORY ${TO}/lib)
foreach(binary IN LISTS BINARIES)
  file(COPY ${binary} DESTINATION ${TO})
  get_filename_component(name ${binary} NAME)
  execute_process(COMMAND ${STRIP} ${TO}/${name} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${BINARIES} RESOLVED_DEPENDENCIES_VAR needed UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|ld-linux.*)\\.so")
if(missing)
  message(FATAL_ERROR "not found: ${missing}")
endif()
foreach(library IN LISTS needed)
  file(COPY ${library} DESTINATION ${TO}/lib FOLLOW_SYMLINK_CHAIN)
endforeach()
message(STATUS "${TO}: ${needed}")
