# `cmake --install build/release`: the binary, its completion, and the docs.
include(GNUInstallDirs)

install(TARGETS nibble RUNTIME)
install(FILES tools/completion/nibble.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME nibble)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
