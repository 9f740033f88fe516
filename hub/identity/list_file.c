#include "hub/identity/list_file.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

void
list_file_init(struct list_file *f, const char *path)
{
	*f = (struct list_file){.path = xstrdup(path)};
}

void
list_file_fini(struct list_file *f)
{
	free(take_ptr(&f->path));
}

int
list_file_write(struct list_file *f, const struct buf *text, struct err *err)
{
	int rc = file_write(f->path, buf_at(text), buf_len(text), 0600);

	if (rc < 0)
		return err_set(err, rc, "cannot write %s: %s", f->path, strerror(-rc));
	if (f->problem[0] != '\0')
		log_info("hub", "written at last file=%s", f->path);
	f->problem[0] = '\0';
	return 0;
}

void
list_file_keep(struct list_file *f, const struct buf *text)
{
	bool known = f->problem[0] != '\0';
	struct err err = {0};

	if (list_file_write(f, text, &err) == 0)
		return;
	snprintf(f->problem, sizeof f->problem,
		"%.200s; it is in force, is tried again, and is lost if the hub ends before",
		err.text);
	if (!known)
		log_error("hub", "a list is not on the disk: %s", f->problem);
}
