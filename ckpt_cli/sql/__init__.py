"""SQL over the tables of a store, loaded into a locked DuckDB as far as a query needs them.

`tables` declares the tables; `planning` asks DuckDB what a query reads; `loading` reads that and no
more; `database` runs the query where nothing outside can be reached.
"""
