# syntax=docker/dockerfile:1

# Both binaries, static: no libc, no shell, no package manager in the image that runs.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/relay ./cmd/inboxctl

# distroless/static brings CA certificates, time zones and the user nonroot (65532), and nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/relay /out/inboxctl /usr/local/bin/
USER 65532:65532
# The actuator; it listens on loopback unless RELAY_HTTP_LISTEN says otherwise.
ENV RELAY_HTTP_LISTEN=0.0.0.0:8080
EXPOSE 8080
# SIGTERM starts the drain; give it relay.drain (30 s) before a kill.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/relay"]
CMD ["run", "--config", "/etc/relay/relay.yaml"]
