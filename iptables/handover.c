/* Changes on the host other than table and route, and which process must restore them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/log.h"
#include "iptables/host/reserve.h"
#include "iptables/iptables_private.h"

void
handover_reserve(struct iptables *ipt)
{
	struct err err;
	int rc;

	if (ipt->port_read_only)
		return;
	rc = reserve_take(ipt->port, &err);
	if (rc > 0)
		ipt->port_ours = true;
	ipt->port_read_only = rc == -EROFS || rc == -EACCES || rc == -EPERM;
	if (ipt->port_read_only) /* as in a pod without privileges */
		log_info("iptables",
			"the listener's port cannot be reserved from here, and need not be: set "
			"net.ipv4.ip_local_reserved_ports=%u on the host, so that no client "
			"connection of the host takes it while the agent is away error=\"%s\"",
			ipt->port, err.text);
	else if (rc < 0)
		log_limited(LOG_LEVEL_WARN, 1, "iptables",
			"the listener's port is not reserved, a client connection may take it "
			"port=%u error=\"%s\"",
			ipt->port, err.text);
}

void
handover_give_back(struct iptables *ipt)
{
	struct err err;

	if (ipt->port_ours && reserve_drop(ipt->port, &err) < 0)
		log_warn("iptables", "cannot give the reserved port back port=%u error=\"%s\"",
			ipt->port, err.text);
	ipt->port_ours = false;
}

void
iptables_undo(struct iptables *ipt)
{
	hairpin_undo(&ipt->hairpin);
	handover_give_back(ipt);
}

void
iptables_estate(const struct iptables *ipt, struct buf *estate)
{
	buf_printf(estate, "port=%u hairpin=", ipt->port_ours ? ipt->port : 0);
	for (size_t i = 0; i < hairpin_count(&ipt->hairpin); i++) {
		int index;

		memcpy(&index, (const char *)buf_at(&ipt->hairpin.ports) + i * sizeof index,
			sizeof index);
		buf_printf(estate, "%s%d", i > 0 ? "," : "", index);
	}
	buf_adds(estate, "\n");
}

void
iptables_leave(struct iptables **ipt, struct buf *estate)
{
	struct iptables *left = *ipt;

	if (left == NULL)
		return;
	iptables_estate(left, estate);
	left->port_ours = false;
	iptables_close(ipt);
}

/* "7,12\n": interface indexes. */
static int
read_indexes(struct buf *out, const char *list)
{
	while (*list != '\n') {
		char *end;
		long n = strtol(list, &end, 10);
		int index = (int)n;

		if (end == list || n <= 0 || n != index || (*end != ',' && *end != '\n'))
			return -EINVAL;
		buf_add(out, &index, sizeof index);
		list = end + (*end == ',');
	}
	return 0;
}

int
iptables_inherit(struct iptables *ipt, const char *estate)
{
	auto_buf struct buf ports;
	unsigned port;
	int at = 0;

	buf_init(&ports, BUF_UNLIMITED);
	if (sscanf(estate, "port=%5u hairpin=%n", &port, &at) != 1 || at == 0 ||
		port > UINT16_MAX || strchr(estate, '\n') == NULL ||
		read_indexes(&ports, estate + at) < 0)
		return -EINVAL;
	if (port == ipt->port)
		ipt->port_ours = true;
	else if (port != 0)
		(void)reserve_drop((uint16_t)port, NULL); /* our predecessor listened there */
	buf_add(&ipt->hairpin.ports, buf_at(&ports), buf_len(&ports));
	return 0;
}
