"""The site side: what runs beside the machines. It never imports `control`."""
