# Toolcaddie's gateway and MCP server. docs/server.md says how to run it.
FROM debian:trixie-slim

RUN --mount=type=bind,target=/checkout,rw sh /checkout/packaging/install.sh /checkout

USER toolcaddie
WORKDIR /data
VOLUME /data
ENV TOOLCADDIE_SERVER_HOST=0.0.0.0
ENV TOOLCADDIE_SERVER_PORT=8321
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/opt/toolcaddie/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/healthz', timeout=4)"]
ENTRYPOINT ["toolcaddie"]
CMD ["serve"]
