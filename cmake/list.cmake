# Writes the list of what was installed, relative to the prefix, itself included. Links of libraries are files
# as well. `listed` is where it belongs.
set(names "")
foreach(file ${CMAKE_INSTALL_MANIFEST_FILES})
  file(RELATIVE_PATH name ${CMAKE_INSTALL_PREFIX} ${file})
  set(names "${names}${name}\n")
endforeach()
file(WRITE "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${listed}" "${names}${listed}\n")
list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_PREFIX}/${listed})
message(STATUS "Installed; to take it away: cd ${CMAKE_INSTALL_PREFIX} && xargs rm < ${listed}")
