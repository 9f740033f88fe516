/*
 * Errors that an operator or a peer can cause: the function returns 0 or -errno and fills the
 * caller's struct err with a sentence that names the place and the remedy; each caller on the way
 * up may prepend its own words.
 *
 *	if (fd < 0)
 *		return err_set(err, errno, "open %s: %s", path, strerror(errno));
 *	...
 *	if ((rc = store_open(...)) < 0)
 *		return err_wrap(err, rc, "cannot open the database");
 *
 * `err` may be NULL everywhere. The function that handles an error logs it, once; a function that
 * returns it does not.
 */
#ifndef EDGEWAY_BASE_CORE_ERR_H
#define EDGEWAY_BASE_CORE_ERR_H

#include "base/core/util.h"

struct err {
	int code; /* positive errno, 0 when unset */
	char text[512];
};

/* Both return -code, always negative. `code` may be given as errno or -errno; 0 becomes EINVAL. */
int err_set(struct err *err, int code, const char *fmt, ...) printf_like(3, 4);
/* "words: what was there before"; keeps the code. */
int err_wrap(struct err *err, int code, const char *fmt, ...) printf_like(3, 4);

#endif
