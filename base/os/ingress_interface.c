#include "base/os/ingress_interface.h"

#include <fnmatch.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/log.h"

enum { GOOD_MS = 1000 };

void
ingress_interface_init(struct ingress_interface *a, const char *const *names)
{
	memset(a, 0, sizeof *a);
	a->names = names;
	a->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void
ingress_interface_fini(struct ingress_interface *a)
{
	cleanup_fd(&a->fd);
}

/* if_indextoname(3) opens a socket each time, which fails when descriptors run out. */
static void
ingress_interface_name(const struct ingress_interface *a, unsigned index, char name[IF_NAMESIZE])
{
	struct ifreq r = {.ifr_ifindex = (int)index};

	if (ioctl(a->fd, SIOCGIFNAME, &r) == 0)
		snprintf(name, IF_NAMESIZE, "%s", r.ifr_name);
	else
		snprintf(name, IF_NAMESIZE, "(%u)", index);
}

static bool
is_allowed(const struct ingress_interface *a, unsigned index)
{
	char name[IF_NAMESIZE];

	ingress_interface_name(a, index, name);
	if (strcmp(name, "lo") == 0)
		return true;
	for (const char *const *p = a->names; *p != NULL; p++) {
		if (fnmatch(*p, name, 0) == 0)
			return true;
	}
	log_limited(LOG_LEVEL_WARN, 1, "agent",
		"a datagram by an interface that is not of the mesh (mesh.interface, "
		"mesh.interfaces) is not answered interface=%s",
		name);
	return false;
}

bool
ingress_interface_ok(struct ingress_interface *a, unsigned index, uint64_t now_ms)
{
	bool ok;

	if (a->names == NULL || a->names[0] == NULL)
		return true;
	if (now_ms >= a->until_ms) {
		a->n = 0;
		a->until_ms = now_ms + GOOD_MS;
	}
	for (unsigned i = 0; i < a->n; i++) {
		if (a->known[i].index == index)
			return a->known[i].ok;
	}
	ok = is_allowed(a, index);
	if (a->n < INGRESS_INTERFACE_KNOWN) {
		a->known[a->n].index = index;
		a->known[a->n++].ok = ok;
	}
	return ok;
}
