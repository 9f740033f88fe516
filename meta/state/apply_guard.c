#include "base/core/log.h"
#include "meta/state/apply_private.h"

/*
 * Handles a change of this machine's addresses (model/dial_guard.h). An endpoint that has become
 * one of our own is removed at once, in memory: this must not wait for a disk. One that may return
 * is rebuilt from its row, which may wait.
 */

void
apply_tell_refused(const struct service *s)
{
	char text[ADDR_TEXT_MAX];

	for (unsigned p = 0; p < s->n_ports; p++) {
		const struct service_port *port = &s->ports[p];
		const struct endpoint *first = service_port_refused(port);

		if (port->n_refused == 0)
			continue;
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"endpoints of a service are refused since the address is %s; where that is "
			"meant, name it in lb.allow service=%s/%s port=%u endpoints=%u address=%s",
			special_addr_text((enum special_addr)first->tier), s->namespace, s->name,
			port->port, port->n_refused, endpoint_text(first, text));
	}
}

void
apply_guard(struct apply *a, const struct dial_guard *guard)
{
	struct change *changes = xcalloc(snapshot_count(a->snapshot) + 1, sizeof(*changes));
	bool in_vain = false;
	size_t n = 0;

	dial_guard_unref(&a->guard);
	a->guard = dial_guard_ref(guard);
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);
		struct service *next = service_recheck(s, guard);

		in_vain |= service_refused_in_vain(s, guard);
		if (next == NULL)
			continue;
		apply_tell_refused(next);
		changes[n++] = (struct change){next->namespace, next->name, next};
	}
	if (n > 0)
		apply_adopt(a, snapshot_next(a->snapshot, changes, n));
	free(changes);
	if (in_vain)
		apply_scan(a, true);
}
