# add_heddle_library(NAME sources… [DEPENDS …] [LINK_LIBS ours…] [MLIR_LIBS upstream…])
# One library per folder. Upstream MLIR always comes from libMLIR.so, LLVM from
# libLLVM.so: never name an LLVM… archive in MLIR_LIBS.
function(add_heddle_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS;MLIR_LIBS" ${ARGN})
  set(LLVM_LINK_COMPONENTS Support)
  add_mlir_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS}
    PARTIAL_SOURCES_INTENDED EXCLUDE_FROM_LIBMLIR DISABLE_INSTALL
    DEPENDS mlir-headers ${ARG_DEPENDS}
    LINK_LIBS PUBLIC ${ARG_LINK_LIBS})
  mlir_target_link_libraries(${name} PUBLIC MLIRIR ${ARG_MLIR_LIBS})
endfunction()

# add_heddle_tool(NAME sources… [LINK_LIBS ours…] [MLIR_LIBS upstream…])
function(add_heddle_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;MLIR_LIBS" ${ARGN})
  set(LLVM_LINK_COMPONENTS Support)
  add_llvm_executable(${name} ${ARG_UNPARSED_ARGUMENTS}
    DEPENDS mlir-headers)
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS})
  mlir_target_link_libraries(${name} PRIVATE MLIRIR ${ARG_MLIR_LIBS})
  mlir_check_all_link_libraries(${name})
endfunction()
