/*
 * edgewayctl top: the current traffic of services, as the difference between two states. So it
 * needs at least two calls: the first prints nothing.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TOP_H
#define EDGEWAY_SRC_CTL_CTL_TOP_H

#include "src/ctl/ctl_show.h"

ctl_show_fn ctl_show_top;

#endif
