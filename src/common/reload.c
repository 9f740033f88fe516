#include "src/common/reload.h"

#include "base/core/log.h"

void
reload_report(const char *part, const struct opt_program *p, const void *running, const void *read)
{
	const struct opt *o = NULL;
	unsigned changed = 0;

	while ((o = opt_changed(p, running, read, o)) != NULL) {
		changed++;
		if (o->reload)
			log_info(part, "reloaded key=%s", o->key);
		else
			log_warn(part, "a changed key waits for a restart key=%s", o->key);
	}
	if (changed == 0)
		log_info(part, "reloaded: nothing has changed");
}
