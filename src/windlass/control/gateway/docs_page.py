"""/docs: the routes as one small page, read from /openapi.json by the reader's own browser. No script
or style comes from anywhere else, so it works without the internet."""

PAGE = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Windlass API</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2530}
code{font-family:ui-monospace,monospace}h1{font-size:1.4rem}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #dde3ea;vertical-align:top}
.m{font-weight:600;width:5rem}.GET{color:#0b6bcb}.POST{color:#1a7f37}.DELETE{color:#b42318}small{color:#5b6876}
</style>
<h1>Windlass API</h1>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code>.
Errors are <code>application/problem+json</code> and say what to do.
The machine-readable form is <a href="/openapi.json">/openapi.json</a>.</p>
<table id="routes"><tr><th>Method<th>Path<th>What it does</table>
<script>
fetch("/openapi.json").then(r=>r.json()).then(d=>{
  const table=document.getElementById("routes");
  for(const [path,methods] of Object.entries(d.paths))for(const [method,op] of Object.entries(methods)){
    const row=table.insertRow(),m=method.toUpperCase();
    const a=row.insertCell();a.textContent=m;a.className="m "+m;
    const b=row.insertCell(),c=document.createElement("code");c.textContent=path;b.append(c);
    const e=row.insertCell();e.textContent=op.summary;
    const query=op.parameters.filter(p=>p.in==="query").map(p=>p.name+": "+p.description).join("; ");
    if(query){const s=document.createElement("small");s.textContent=" ("+query+")";e.append(s);}
  }
});
</script></html>
"""
