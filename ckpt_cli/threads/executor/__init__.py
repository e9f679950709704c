"""Does the same work for many threads: in this process, in several, or on a cluster.

The unit is a range of threads. Where it is worked on changes nothing about the answers:

    executor = around.executor(jobs, cluster)             # a session, or Python code
    for result in executor.run(store, threads, work):     # in the order of the threads
        ...

`threads` is an iterator of parts: thread ids, or objects with a `thread_id`, such as
`model.Thread`; it is read once and never held in memory. `work` is picklable, at best a `partial`
of a function of a module. Called with a store, it returns a function that takes a sequence of parts
and returns, or yields, exactly one result for each of them in their order; `each` makes such a
function of one for a single thread id. Parts and results must be picklable. The results of a few
ranges are in memory at a time, so a result should be a summary, or be bounded by the size of its
thread; what is larger goes to a file that the result names.

A `CkptError` of the work ends the run, after the results before it. A thread whose work raises
anything else twice, or kills its worker twice, is left out and told at the end, and the rest goes
on. So work may run again for a thread: what it writes must be the same the second time.
"""
