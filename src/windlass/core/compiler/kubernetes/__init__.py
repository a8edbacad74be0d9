"""The Kubernetes target: from admitted work, cells and sites to manifests. Pure; nothing here applies any.

`workload.finish` makes a component, `cell.cell_objects` what its namespace needs, `site.site_objects`
what Kueue needs. `refusals.refusals` says what a template may not hold.
"""
