#include "src/common/log_admin.h"

#include <string.h>

#include "base/core/log.h"

enum { WORD_MAX = 32 };

void
log_admin_show(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)arg;
	(void)req;
	reply->type = "application/json";
	buf_adds(&reply->body, "{\"log\":[");
	for (const char *const *part = log_parts(); *part != NULL; part++)
		buf_printf(&reply->body, "%s{\"part\":\"%s\",\"level\":\"%s\"}",
			part == log_parts() ? "" : ",", *part, log_level_name(log_level_of(*part)));
	buf_adds(&reply->body, "]}\n");
}

static bool
level_named(const char *name, enum log_level *level)
{
	for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
		if (strcmp(name, log_level_name((enum log_level)i)) == 0) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

void
log_admin_level(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	char name[WORD_MAX] = "", part[WORD_MAX] = "";
	enum log_level level = LOG_LEVEL_INFO;

	(void)arg;
	reply->status = 400;
	if (admin_query(req->query, "level", name, sizeof name) != 1 ||
		!level_named(name, &level)) {
		buf_adds(&reply->body, "level: error, warn, info or debug expected\n");
		return;
	}
	if (admin_query(req->query, "part", part, sizeof part) < 0 ||
		log_part_level(part, level) < 0) {
		buf_adds(&reply->body,
			"part: no part of the log has this name; edgewayctl log list shows them\n");
		return;
	}
	reply->status = 200;
	log_info("log", "level changed part=%s level=%s", part[0] != '\0' ? part : "all", name);
	buf_printf(&reply->body, "%s: %s\n", part[0] != '\0' ? part : "all parts", name);
}
