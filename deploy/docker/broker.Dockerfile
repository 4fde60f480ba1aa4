# From the root of the repository: docker build -f deploy/docker/broker.Dockerfile -t dormouse-broker .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package dormouse-broker

FROM debian:bookworm-slim
# Certificates of public authorities: services of a ToolBroker may be https.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/dormouse-broker /usr/local/bin/dormouse-broker
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/dormouse-broker"]
