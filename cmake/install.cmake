# What `cmake --install BUILD --prefix DIR` puts where, without root and free to be moved afterwards:
#
#   bin/snug                                  the program; it needs no library of its own
#   include/snug/snug.h                       the public interface
#   lib/snug/snug-mpi.so                      what the program opens where several processes train
#   bin/sbatch-snug                           sbatch that asks `snug admit` before
#   lib/snug/slurm/job_submit_snug.so         the same for Slurm's controller, where Slurm's header was found
#   lib/libsnug.so.0, libsnug.a               with the names of snug.h and no others
#   lib/pkgconfig/snug.pc, lib/cmake/snug/    for pkg-config and find_package(snug)
#   share/man/man1, shells' completion        written by the program from its table of options
#   share/doc/snug                            guides, formats, examples
#   share/snug/installed                      the list of it all, which uninstalling goes by
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ---- the libraries ----

add_library(snug-shared SHARED $<TARGET_OBJECTS:snug-objects>)
set_target_properties(snug-shared PROPERTIES OUTPUT_NAME snug EXPORT_NAME snug VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/snug.map)
target_include_directories(snug-shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(snug-shared PRIVATE Threads::Threads PkgConfig::JSONC ${SNUG_PACKED} ${CMAKE_DL_LIBS} m
                      -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/snug.map)

# Hidden symbols are no secret in an archive: there they could clash with those of whoever links it. So its
# members become one, in which they are local.
set(archive ${CMAKE_BINARY_DIR}/installed/libsnug.a)
add_custom_command(OUTPUT ${archive}
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/installed
                   COMMAND ${CMAKE_COMMAND} -E remove -f ${archive}
                   COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${CMAKE_BINARY_DIR}/installed/snug.o
                           $<TARGET_OBJECTS:snug-objects>
                   COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${CMAKE_BINARY_DIR}/installed/snug.o
                   COMMAND ${CMAKE_AR} rcs ${archive} ${CMAKE_BINARY_DIR}/installed/snug.o
                   DEPENDS snug-objects $<TARGET_OBJECTS:snug-objects>
                   COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking installed/libsnug.a")
add_custom_target(snug-archive ALL DEPENDS ${archive})

# ---- pages ----

set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/written
                   COMMAND ${CMAKE_COMMAND} -D program=$<TARGET_FILE:snug-cli> -D pages=${pages}
                           -P ${CMAKE_SOURCE_DIR}/cmake/pages.cmake
                   DEPENDS snug-cli cmake/pages.cmake VERBATIM COMMENT "Writing manual pages and completion")
add_custom_target(snug-pages ALL DEPENDS ${pages}/written)

# ---- what goes where ----

install(TARGETS snug-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET snug-mpi)
  install(TARGETS snug-mpi LIBRARY DESTINATION lib/snug) # where the program looks for it: ../lib/snug
endif()
install(PROGRAMS plugins/slurm/sbatch-snug DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET job_submit_snug)
  install(TARGETS job_submit_snug LIBRARY DESTINATION lib/snug/slurm) # a directory for PluginDir
endif()
install(TARGETS snug-shared EXPORT snug LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/snug/snug.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/snug)
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/bash/snug DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES ${pages}/zsh/_snug DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
install(FILES ${pages}/fish/snug.fish DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# Paths from these files to the prefix, so that a tree that was moved still finds itself.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/snug)
file(RELATIVE_PATH SNUG_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(SNUG_PC_PACKED "")
foreach(name ${SNUG_PACKED_NAMES})
  string(APPEND SNUG_PC_PACKED " -l${name}")
endforeach()
configure_file(cmake/snug.pc.in ${CMAKE_BINARY_DIR}/installed/snug.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/installed/snug.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(cmake/snugConfig.cmake.in ${CMAKE_BINARY_DIR}/installed/snugConfig.cmake
                              INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/installed/snugConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/installed/snugConfig.cmake ${CMAKE_BINARY_DIR}/installed/snugConfigVersion.cmake
        DESTINATION ${package})
install(EXPORT snug FILE snugTargets.cmake NAMESPACE snug:: DESTINATION ${package})

# ---- taking it away again ----

# Last of all, the list. `cd DIR && xargs rm < share/snug/installed` needs neither CMake nor the build.
install(CODE "set(listed ${CMAKE_INSTALL_DATAROOTDIR}/snug/installed)")
install(SCRIPT cmake/list.cmake)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR}
                  -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM COMMENT "Uninstalling")
