noinst_LIBRARIES += model/libmodel.a
model_libmodel_a_SOURCES = 
