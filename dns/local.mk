noinst_LIBRARIES += dns/libdns.a
dns_libdns_a_SOURCES = 
