#include "hub/kube/names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/core/buf.h"

enum { FILE_MAX = 64 * 1024 };

void
names_add(struct names *names, const char *name)
{
	size_t at = 0;

	while (at < names->n && strcmp(names->name[at], name) < 0)
		at++;
	if (name[0] == '\0' || names->n == NAMES_MAX ||
		(at < names->n && strcmp(names->name[at], name) == 0))
		return;
	memmove(names->name + at + 1, names->name + at, (names->n - at) * sizeof *names->name);
	names->name[at] = xstrdup(name);
	names->n++;
	names->name[names->n] = NULL;
}

void
names_fini(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->name[i]);
	memset(names, 0, sizeof *names);
}

bool
names_hold(const struct names *names, const struct names *others)
{
	for (size_t i = 0, k = 0; i < others->n; i++) {
		while (k < names->n && strcmp(names->name[k], others->name[i]) < 0)
			k++;
		if (k == names->n || strcmp(names->name[k], others->name[i]) != 0)
			return false;
	}
	return true;
}

void
names_add_interfaces(struct names *names)
{
	struct ifaddrs *all, *i;
	char text[INET6_ADDRSTRLEN];

	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i != NULL; i = i->ifa_next) {
		const void *sa = i->ifa_addr;

		if (sa == NULL || (i->ifa_flags & IFF_LOOPBACK))
			continue;
		if (i->ifa_addr->sa_family == AF_INET) {
			const struct sockaddr_in *in = sa;

			names_add(names, inet_ntop(AF_INET, &in->sin_addr, text, sizeof text));
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			const struct sockaddr_in6 *in6 = sa;

			if (!IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
				names_add(names,
					inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text));
		}
	}
	freeifaddrs(all);
}

/* hub.names: the CA's hash, then one name per line. */
void
names_read(const char *path, const char *ca_hash, struct names *names)
{
	auto_free char *text = NULL;
	char *save = NULL, *line;

	if (file_read(path, FILE_MAX, &text, NULL) < 0)
		return;
	line = strtok_r(text, "\n", &save);
	if (line == NULL || strcmp(line, ca_hash) != 0)
		return;
	while ((line = strtok_r(NULL, "\n", &save)) != NULL)
		names_add(names, line);
}

int
names_write(const char *path, const char *ca_hash, const struct names *names, struct err *err)
{
	auto_buf struct buf b;
	int rc;

	buf_init(&b, BUF_UNLIMITED);
	buf_printf(&b, "%s\n", ca_hash);
	for (size_t i = 0; i < names->n; i++)
		buf_printf(&b, "%s\n", names->name[i]);
	rc = file_write(path, buf_at(&b), buf_len(&b), 0644);
	return rc < 0 ? err_set(err, rc, "cannot write %s: %s", path, strerror(-rc)) : 0;
}
