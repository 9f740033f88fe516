/*
 * --check: the configuration is valid; prints the resulting values, with secrets hidden. Returns
 * the exit status.
 */
#ifndef EDGEWAY_SRC_COMMON_CHECK_H
#define EDGEWAY_SRC_COMMON_CHECK_H

#include "base/conf/opt.h"

int check_print(const struct opt_program *p, const void *values);

#endif
