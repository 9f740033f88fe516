#include "base/core/state.h"

#include "base/core/log.h"

unsigned
state_go(const struct state_machine *m, unsigned from, unsigned to)
{
	if ((m->next[from] & STATE_TO(to)) == 0)
		log_limited(LOG_LEVEL_ERROR, 6, m->part,
			"an unexpected change of state, please report it: machine=%s from=\"%s\" "
			"to=\"%s\"",
			m->name, m->names[from], m->names[to]);
	else if (from != to)
		log_debug(m->part, "machine=%s from=\"%s\" to=\"%s\"", m->name, m->names[from],
			m->names[to]);
	return to;
}
