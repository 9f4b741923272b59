# What `cmake --install` puts into place: the headers, one archive, the program, and how to find them
# by find_package(strand) and by pkg-config.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One archive, whatever the layers are that it is made of.
add_library(strand_archive STATIC
  $<TARGET_OBJECTS:strand_base> $<TARGET_OBJECTS:strand_pq> $<TARGET_OBJECTS:strand_proto>
  $<TARGET_OBJECTS:strand_store> $<TARGET_OBJECTS:strand_queue>
  $<TARGET_OBJECTS:strand_workflow>)
set_target_properties(strand_archive PROPERTIES OUTPUT_NAME strand LINKER_LANGUAGE CXX)

set(strand_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/strand")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/strandConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/strandConfig.cmake" INSTALL_DESTINATION "${strand_package_dir}")
# Before 1.0 a minor version may change what is promised.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/strandConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)

install(TARGETS strand_archive ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/strand" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_BINARY_DIR}/strandConfig.cmake"
  "${PROJECT_BINARY_DIR}/strandConfigVersion.cmake" DESTINATION "${strand_package_dir}")
# The prefix is known only when it is installed.
install(CODE "
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  configure_file(\"${CMAKE_CURRENT_LIST_DIR}/strand.pc.in\"
    \"${PROJECT_BINARY_DIR}/strand.pc\" @ONLY)
  file(INSTALL \"${PROJECT_BINARY_DIR}/strand.pc\"
    DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")")
if(TARGET strand_program)
  install(TARGETS strand_program DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
