#include "base/os/port_holder.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/util.h"

/* `local` is in the format of /proc/net: IPv4 in 8 digits, IPv6 in 32. An IPv6 wildcard socket
 * covers IPv4 as well. */
static bool
port_holder_covers(const char *local, uint32_t address)
{
	static const char any[] = "00000000000000000000000000000000",
			  mapped[] = "0000000000000000FFFF0000";
	uint32_t ip;

	if (strcmp(local, any) == 0 || strcmp(local, "00000000") == 0)
		return true;
	if (strlen(local) == sizeof any - 1 && strncmp(local, mapped, sizeof mapped - 1) == 0)
		local += sizeof mapped - 1;
	return strlen(local) == 8 && sscanf(local, "%" SCNx32, &ip) == 1 && ntohl(ip) == address;
}

static uint64_t
socket_at(const char *path, uint32_t address, uint16_t port, unsigned *user)
{
	const unsigned listening = strstr(path, "tcp") != NULL
		? 10
		: 7; /* TCP_LISTEN; a bound datagram socket is TCP_CLOSE */
	FILE *f = fopen(path, "re");
	char line[512], local[40];
	uint64_t found = 0;

	if (f == NULL)
		return 0;
	while (found == 0 && fgets(line, sizeof line, f) != NULL) {
		unsigned at, state, uid;
		uint64_t inode;

		if (sscanf(line,
			    "%*d: %39[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %u %*s %" SCNu64,
			    local, &at, &state, &uid, &inode) == 5 &&
			at == port && state == listening && port_holder_covers(local, address)) {
			found = inode;
			*user = uid;
		}
	}
	fclose(f);
	return found;
}

static bool
port_holder_holds(const char *pid, const char *link)
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
	auto_free char *path = xasprintf("/proc/net/%s", protocol), *six = xasprintf("%s6", path);
	uint64_t inode = socket_at(path, address, port, &user);
	auto_free char *link = NULL;
	DIR *d;
	const struct dirent *e;

	who[0] = '\0';
	if (inode == 0)
		inode = socket_at(six, address, port, &user);
	if (inode == 0)
		return false;
	link = xasprintf("socket:[%" PRIu64 "]", inode);
	snprintf(who, PORT_HOLDER_TEXT_MAX, "a process of user %u " PORT_HOLDER_UNSEEN, user);
	if ((d = opendir("/proc")) == NULL)
		return true;
	while ((e = readdir(d)) != NULL) {
		if (isdigit((unsigned char)e->d_name[0]) && port_holder_holds(e->d_name, link)) {
			auto_free char *comm = xasprintf("/proc/%s/comm", e->d_name);
			FILE *f = fopen(comm, "re");
			char name[64] = "", of[24] = "";

			if (f != NULL && fscanf(f, "%63[^\n]", name) != 1)
				name[0] = '\0';
			if (f != NULL)
				fclose(f);
			if (user != 0)
				snprintf(of, sizeof of, ", user %u", user);
			snprintf(
				who, PORT_HOLDER_TEXT_MAX, "%s (pid %.12s%s)", name, e->d_name, of);
			/* systemd keeps copies of sockets for units (FileDescriptorStoreMax): who
			 * else has it uses it. */
			if (strcmp(e->d_name, "1") != 0)
				break;
		}
	}
	closedir(d);
	return true;
}
