#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "meta/client/hub_client_private.h"
#include "model/json.h"

static void
write_target(char *to, size_t size, const struct message_url *at)
{
	snprintf(to, size, strchr(at->host, ':') != NULL ? "[%s]:%u" : "%s:%u", at->host, at->port);
}

void
hub_client_aim(struct hub_client *f, struct ws_dial *d)
{
	const struct message_url *at = &hub_addresses_now(&f->places)->at;

	d->host = at->host;
	write_target(f->target, sizeof f->target, at);
	d->target = f->target;
	d->carriers = f->carriers;
	if (f->proxy.host[0] != '\0')
		d->proxy = &f->proxy;
}

void
hub_client_remember_addresses(struct hub_client *f, struct message_hello *hello)
{
	const struct place *p = hub_addresses_now(&f->places);
	bool proxied = f->proxy.host[0] != '\0';
	auto_free char *good = proxied ? xasprintf("proxy %s", f->proxy.host)
				       : xasprintf("address %s", p->url),
		       *told = xasprintf("addresses %s", p->url), *text = NULL;

	if (hub_addresses_good(&f->places, f->address))
		apply_note(f->apply, good, f->address);
	if (proxied || hello == NULL ||
		!hub_addresses_told(&f->places, hello->addresses, hello->n_addresses))
		return;
	text = hub_addresses_told_text(p);
	apply_note(f->apply, told, text);
}

void
hub_client_tell_hub(struct hub_client *f)
{
	if (f->hub_changed != NULL)
		f->hub_changed(f->hub_arg);
}

int
hub_client_node_ctx(
	const struct hub_client *f, bool server, struct ssl_ctx_st **ctx, struct err *err)
{
	int rc;

	if (f->tls == NULL)
		return err_set(err, ENOENT, "this node has no certificate yet");
	rc = pki_node_ctx(server, f->identity.ca, f->identity.cert, f->identity.key, ctx, err);
	if (rc == 0)
		pki_ctx_floor(*ctx, f->floor_s);
	return rc;
}

uint64_t
hub_client_certificate(const struct hub_client *f)
{
	return f->tls != NULL ? f->certificates : 0;
}

void
hub_client_note_hub(struct hub_client *f)
{
	f->greeted = hub_addresses_now(&f->places);
	f->greeted_at = f->at;
	hub_addresses_avoid(&f->places, NULL);
	hub_client_find_hubs(f);
	hub_client_tell_hub(f);
}

void
hub_client_aim_at(const struct place *place, struct hub_client_hub *to)
{
	to->host = place->at.host;
	write_target(to->target, sizeof to->target, &place->at);
}

bool
hub_client_hub(const struct hub_client *f, struct hub_client_hub *to)
{
	if (f->greeted == NULL || f->tls == NULL)
		return false;
	*to = (struct hub_client_hub){
		.addr = f->greeted_at,
		.tls = f->tls,
		.certificate = f->certificates,
		.rendezvous = f->rendezvous,
		.proxy = f->proxy.host[0] != '\0' ? &f->proxy : NULL,
	};
	hub_client_aim_at(f->greeted, to);
	return true;
}

void
hub_client_places(const struct hub_client *f, struct buf *out)
{
	buf_adds(out, "[");
	for (size_t i = 0; i < f->places.n; i++) {
		const struct place *p = &f->places.place[i];

		buf_adds(out, i > 0 ? ",{\"url\":" : "{\"url\":");
		json_add_text(out, p->url);
		buf_adds(out, ",\"last_good\":");
		json_add_text(out, p->last_good != NULL ? p->last_good : "");
		buf_adds(out, ",\"told\":[");
		for (size_t k = 0; k < p->n_told; k++) {
			buf_adds(out, k > 0 ? "," : "");
			json_add_text(out, p->told[k]);
		}
		buf_adds(out, "]}");
	}
	buf_adds(out, "]");
}
