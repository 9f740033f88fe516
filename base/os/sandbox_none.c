#include "base/os/sandbox.h"

#include <errno.h>

/* Built without libseccomp, or with sanitizers: only sandbox_enter is ever called. */
int
sandbox_enter(struct sandbox **s, enum sandbox_mode mode, struct err *err)
{
	(void)mode;
	*s = NULL;
	return err_set(err, ENOTSUP, "built without libseccomp, or with sanitizers");
}

int
sandbox_fd(const struct sandbox *s)
{
	(void)s;
	return -1;
}

bool
sandbox_next(struct sandbox *s, struct sandbox_refusal *refusal)
{
	(void)s;
	(void)refusal;
	return false;
}

struct sandbox_status
sandbox_status(const struct sandbox *s)
{
	(void)s;
	return (struct sandbox_status){0};
}
