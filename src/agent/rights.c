#include "src/agent/rights.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/privileges.h"

/* The new file gets the owner and group of the old one. A symbolic link is replaced itself: the
 * owner of the file it points to does not matter. */
static bool
given_away(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && !S_ISLNK(st.st_mode) &&
		(st.st_uid != geteuid() || st.st_gid != getegid());
}

/* A path that needs more privileges than usual, or NULL. */
static const char *
foreign_path(const struct agent_options *o, const char *resolv_folder)
{
	const char *const ours[] = {o->data_dir, o->hub_ca, o->hub_cert, o->hub_key};

	if (o->dns_manage_resolv_conf && o->dns_host == HOST_FILE) {
		if (privileges_foreign(resolv_folder))
			return resolv_folder;
		if (given_away(o->dns_resolv_conf))
			return o->dns_resolv_conf;
	}
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		if (ours[i] != NULL && ours[i][0] != '\0' && privileges_foreign(ours[i]))
			return ours[i];
	}
	return NULL;
}

void
rights_reduce(const struct agent_options *o)
{
	const char *slash = strrchr(o->dns_resolv_conf, '/');
	auto_free char *folder = slash != NULL && slash > o->dns_resolv_conf
		? xstrndup(o->dns_resolv_conf, (size_t)(slash - o->dns_resolv_conf))
		: xstrdup(slash != NULL ? "/" : ".");
	const char *foreign = foreign_path(o, folder);
	uint64_t keep = PRIVILEGE_NET_ADMIN | PRIVILEGE_NET_BIND;
	struct err err = {0};

	if (foreign != NULL && (privileges_held() & PRIVILEGE_FOREIGN_FILES) != 0) {
		keep |= PRIVILEGE_FOREIGN_FILES;
		log_info("agent",
			"keeps the right to other users' files (CAP_DAC_OVERRIDE, CAP_CHOWN, "
			"CAP_FOWNER), since one that it needs is not its own path=%s",
			foreign);
	}
	if (privileges_keep(keep, &err) < 0)
		log_warn("agent",
			"cannot give up privileges, going on with all of them: is capset(2) "
			"forbidden here? error=\"%s\"",
			err.text);
	log_debug("agent", "privileges reduced capabilities=%#llx no_new_privs=true",
		(unsigned long long)privileges_held());
}
