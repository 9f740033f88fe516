#include "iptables/host/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define RESERVED_PORTS "/proc/sys/net/ipv4/ip_local_reserved_ports"
enum { PORTS = 65536, LIST_MAX = 512 * 1024 };

static int
parse_number(const char **at)
{
	int v = 0;

	if (**at < '0' || **at > '9')
		return -EINVAL;
	for (; **at >= '0' && **at <= '9'; (*at)++) {
		v = v * 10 + (**at - '0');
		if (v >= PORTS)
			return -EINVAL;
	}
	return v;
}

static int
parse_list(bool ports[PORTS], const char *list)
{
	while (*list != '\0' && *list != '\n') {
		int first = parse_number(&list), last = first;

		if (first >= 0 && *list == '-') {
			list++;
			last = parse_number(&list);
		}
		if (first < 0 || last < first || strchr(",\n", *list) == NULL)
			return -EINVAL;
		memset(ports + first, true, (size_t)(last - first + 1));
		if (*list == ',')
			list++;
	}
	return 0;
}

static void
print_list(struct buf *out, const bool ports[PORTS])
{
	const char *comma = "";

	for (int i = 0; i < PORTS; i++) {
		int first = i;

		if (!ports[i])
			continue;
		while (i + 1 < PORTS && ports[i + 1])
			i++;
		buf_printf(out, first == i ? "%s%d" : "%s%d-%d", comma, first, i);
		comma = ",";
	}
	buf_adds(out, "\n");
}

int
reserve_edit(struct buf *out, const char *list, uint16_t port, bool add)
{
	auto_free bool *ports = xcalloc(PORTS, sizeof *ports);
	int rc = parse_list(ports, list);
	bool had = ports[port];

	if (rc < 0)
		return rc;
	ports[port] = add;
	print_list(out, ports);
	return had != add;
}

static int
write_list(const char *text, size_t len)
{
	auto_fd int fd = open(RESERVED_PORTS, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	errno = 0;
	/* A single write: the kernel replaces the whole list with the content of a write at offset
	 * 0. */
	if (write(fd, text, len) != (ssize_t)len)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

static int
reserve_change(uint16_t port, bool add, struct err *err)
{
	auto_free char *list = NULL;
	auto_buf struct buf next;
	int rc, changed;

	buf_init(&next, BUF_UNLIMITED);
	rc = file_read(RESERVED_PORTS, LIST_MAX, &list, NULL);
	if (rc < 0)
		return err_set(err, rc, "read " RESERVED_PORTS ": %s", strerror(-rc));
	changed = reserve_edit(&next, list, port, add);
	if (changed < 0)
		return err_set(err, changed, RESERVED_PORTS " holds what is no list of ports");
	rc = changed ? write_list(buf_at(&next), buf_len(&next)) : 0;
	if (rc < 0)
		return err_set(err, rc, "write " RESERVED_PORTS ": %s", strerror(-rc));
	return changed;
}

int
reserve_take(uint16_t port, struct err *err)
{
	return reserve_change(port, true, err);
}

int
reserve_drop(uint16_t port, struct err *err)
{
	return reserve_change(port, false, err);
}
