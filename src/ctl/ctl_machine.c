#include "src/ctl/ctl_machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/core/sock.h"

bool
machine_interface(const char *name, uint32_t *address, bool *up)
{
	struct ifaddrs *all, *a;
	bool found = false;

	*address = 0;
	*up = false;
	if (getifaddrs(&all) < 0)
		return false;
	for (a = all; a != NULL; a = a->ifa_next) {
		if (strcmp(a->ifa_name, name) != 0)
			continue;
		found = true;
		*up = (a->ifa_flags & IFF_UP) != 0;
		if (*address == 0 && a->ifa_addr != NULL && a->ifa_addr->sa_family == AF_INET) {
			struct sockaddr_in in;

			memcpy(&in, a->ifa_addr, sizeof in);
			*address = ntohl(in.sin_addr.s_addr);
		}
	}
	freeifaddrs(all);
	return found;
}

long
machine_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long v = -1;

	if (f == NULL)
		return -1;
	if (fscanf(f, "%ld", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

unsigned
machine_mtu(const char *interface)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
	return fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0
		? (unsigned)request.ifr_mtu
		: 0;
}

/* A connected datagram socket has a route without sending anything. */
static int
connect_towards(const char *towards)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct addr to;

	return towards[0] != '\0' && fd >= 0 && addr_parse(&to, towards, 1, NULL) == 0 &&
			to.sa.sa_family == AF_INET && connect(fd, &to.sa, to.len) == 0
		? take_fd(&fd)
		: -1;
}

unsigned
machine_path_mtu(const char *towards)
{
	auto_fd int fd = connect_towards(towards);
	int mtu = 0;
	socklen_t len = sizeof mtu;

	return fd >= 0 && getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len) == 0 && mtu > 0
		? (unsigned)mtu
		: 0;
}

static bool
find_way(const char *towards, char name[PLACE_TEXT_MAX])
{
	auto_fd int fd = connect_towards(towards);
	struct addr from = {.len = sizeof from.in};
	struct ifaddrs *all, *a;

	if (fd < 0 || getsockname(fd, &from.sa, &from.len) < 0 || getifaddrs(&all) < 0)
		return false;
	for (a = all; a != NULL; a = a->ifa_next) {
		struct sockaddr_in in;

		if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&in, a->ifa_addr, sizeof in);
		if (in.sin_addr.s_addr == from.in.sin_addr.s_addr)
			snprintf(name, PLACE_TEXT_MAX, "%s", a->ifa_name);
	}
	freeifaddrs(all);
	return name[0] != '\0';
}

void
machine_uplink(const char *towards, char name[PLACE_TEXT_MAX])
{
	FILE *f = fopen("/proc/net/route", "re");
	char line[512], interface[64], destination[16];

	name[0] = '\0';
	if (f == NULL)
		return;
	find_way(towards, name);
	while (name[0] == '\0' && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%63s %15s", interface, destination) == 2 &&
			strcmp(destination, "00000000") == 0)
			snprintf(name, PLACE_TEXT_MAX, "%s", interface);
	}
	fclose(f);
}

bool
machine_clock_is_kept(void)
{
	struct timex t = {0};

	return adjtimex(&t) != TIME_ERROR && (t.status & STA_UNSYNC) == 0;
}
