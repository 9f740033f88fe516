/*
 * How many descriptors a daemon may have open. The usual soft limit of 1024 is soon gone: a proxied
 * connection takes two, and strangers at the hub's port one each. Containers on the other hand
 * often come with a limit of 2^30, for which libraries would allocate tables. So the limit is set
 * to as much as is of use, before anything else is started.
 */
#ifndef EDGEWAY_SRC_COMMON_LIMITS_H
#define EDGEWAY_SRC_COMMON_LIMITS_H

enum { LIMIT_DESCRIPTORS = 65536 };

/* The soft limit becomes LIMIT_DESCRIPTORS, or the hard limit where that is less. */
void limit_descriptors(void);
/* Standard input, output and error that were closed when we were started become /dev/null: else a
 * lock or a connection would have the number, log lines would go there, and edgeway-starter would
 * keep it. Before anything is opened. */
void open_standard_descriptors(void);

#endif
