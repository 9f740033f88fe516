#include "base/port_holder.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

static uint64_t
socket_at(const char *protocol, uint32_t address, uint16_t port, unsigned *user)
{
	auto_free char *path = xasprintf("/proc/net/%s", protocol);
	const unsigned listening = strcmp(protocol, "tcp") == 0
		? 10
		: 7; /* TCP_LISTEN; a bound datagram socket is TCP_CLOSE */
	FILE *f = fopen(path, "re");
	char line[512];
	uint64_t found = 0;

	if (f == NULL)
		return 0;
	while (found == 0 && fgets(line, sizeof line, f) != NULL) {
		uint32_t local;
		unsigned at, state;
		uint64_t inode;

		if (sscanf(line, "%*d: %" SCNx32 ":%x %*x:%*x %x %*s %*s %*s %u %*s %" SCNu64,
			    &local, &at, &state, user, &inode) == 5 &&
			at == port && state == listening && (local == 0 || ntohl(local) == address))
			found = inode;
	}
	fclose(f);
	return found;
}

static bool
holds(const char *pid, const char *link)
{
	auto_free char *folder = xasprintf("/proc/%s/fd", pid);
	DIR *d = opendir(folder);
	const struct dirent *e;
	bool found = false;

	if (d == NULL)
		return false;
	while (!found && (e = readdir(d)) != NULL) {
		auto_free char *path = xasprintf("%s/%s", folder, e->d_name);
		char to[64];
		ssize_t n = readlink(path, to, sizeof to - 1);

		to[n > 0 ? n : 0] = '\0';
		found = strcmp(to, link) == 0;
	}
	closedir(d);
	return found;
}

bool
port_holder(const char *protocol, uint32_t address, uint16_t port, char who[PORT_HOLDER_TEXT_MAX])
{
	unsigned user = 0;
	uint64_t inode = socket_at(protocol, address, port, &user);
	auto_free char *link = xasprintf("socket:[%" PRIu64 "]", inode);
	DIR *d;
	const struct dirent *e;

	who[0] = '\0';
	if (inode == 0)
		return false;
	snprintf(who, PORT_HOLDER_TEXT_MAX, "a process of user %u " PORT_HOLDER_UNSEEN, user);
	if ((d = opendir("/proc")) == NULL)
		return true;
	while ((e = readdir(d)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]) && holds(e->d_name, link)) {
			auto_free char *path = xasprintf("/proc/%s/comm", e->d_name);
			FILE *f = fopen(path, "re");
			char name[64] = "";

			if (f != NULL && fscanf(f, "%63[^\n]", name) != 1)
				name[0] = '\0';
			if (f != NULL)
				fclose(f);
			snprintf(who, PORT_HOLDER_TEXT_MAX, "%s (pid %.12s)", name, e->d_name);
			break;
		}
	}
	closedir(d);
	return true;
}
