/*
 * edgewayctl top: what services do just now, the difference between two looks. So it has to be
 * shown twice at least: the first time there is nothing to say yet, and nothing is printed.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TOP_H
#define EDGEWAY_SRC_CTL_CTL_TOP_H

#include "src/ctl/ctl_show.h"

ctl_show_fn ctl_show_top;

#endif
