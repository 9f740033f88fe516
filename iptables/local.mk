noinst_LIBRARIES += iptables/libiptables.a
iptables_libiptables_a_SOURCES = 
