/*
 * The limit on open descriptors. The usual soft limit of 1024 is reached soon: a proxied connection
 * takes two, and every unauthenticated peer at the hub's port one. Containers, in contrast, often
 * have a limit of 2^30, for which libraries would allocate tables. So the limit is set to a useful
 * value before anything else is started.
 */
#ifndef EDGEWAY_SRC_COMMON_LIMITS_H
#define EDGEWAY_SRC_COMMON_LIMITS_H

enum { LIMIT_DESCRIPTORS = 65536 };

/* Sets the soft limit to LIMIT_DESCRIPTORS, or to the hard limit if that is less. */
void limit_descriptors(void);
/* Opens standard input, output and error as /dev/null if they were closed at the start: otherwise a
 * lock or a connection would get the number, log lines would go there, and edgeway-starter would
 * keep it open. Call before anything is opened. */
void open_standard_descriptors(void);

#endif
