noinst_LIBRARIES += dns/libdns.a
dns_libdns_a_SOURCES = \
	dns/answer.c dns/answer.h \
	dns/dns.c dns/dns.h \
	dns/forward.c dns/forward.h \
	dns/message.c dns/message.h \
	dns/resolvconf.c dns/resolvconf.h \
	dns/resolvkeep.c dns/resolvkeep.h \
	dns/resolvtext.c dns/resolvtext.h \
	dns/rewrite.c dns/rewrite.h \
	dns/server.c dns/server.h \
	dns/tcp.c dns/tcp.h
