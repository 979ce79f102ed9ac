# Runs every experiment of the program HALFULP at its defaults into the scratch folder WORK, then again on one thread, and
# compares. Those that take long on one thread are run again only in the exhaustive run; on small configurations test
# `reproducibility` compares them too.
file(REMOVE_RECURSE ${WORK})
include(${CMAKE_CURRENT_LIST_DIR}/step.cmake)

step(${HALFULP} run all --out ${WORK}/first/)
file(GLOB reports RELATIVE ${WORK}/first ${WORK}/first/*.json)
list(LENGTH reports count)
if(count LESS 4)
  message(FATAL_ERROR "only these reports: ${reports}")
endif()
foreach(report ${reports})
  step(${HALFULP} validate ${WORK}/first/${report})
endforeach()
if(NOT DEFINED ENV{HALFULP_EXHAUSTIVE})
  list(REMOVE_ITEM reports training.json optimizer.json finetune.json loss_scaling.json quantization.json
    recommendation.json position_ids.json accumulation.json operators.json reproduce.json)
endif()
file(MAKE_DIRECTORY ${WORK}/second)
foreach(report ${reports})
  string(REPLACE .json "" experiment ${report})
  step(${HALFULP} run ${experiment} --threads 1 --backend emulated --quiet --out ${WORK}/second/${report})
  step(${HALFULP} diff ${WORK}/first/${report} ${WORK}/second/${report})
endforeach()
