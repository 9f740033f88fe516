/*
 * Log levels by part, shown and changed at run time through the admin server of either daemon. A
 * change lasts until SIGHUP or the end; then the configuration's log.level applies.
 */
#ifndef EDGEWAY_SRC_COMMON_LOG_ADMIN_H
#define EDGEWAY_SRC_COMMON_LOG_ADMIN_H

#include "base/http/admin.h"

/* GET: {"log":[{"part","level"}...]}. */
admin_fn log_admin_show;
/* POST with the query level=LEVEL and optionally part=PART; from the Unix socket only. */
admin_fn log_admin_level;

#endif
