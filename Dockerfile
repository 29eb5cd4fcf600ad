# SPDX-License-Identifier: GPL-3.0-or-later
# Untried: there is no Docker where this project is tested. What it runs, scripts/setup.sh, is tried on Debian 12.
#
#   docker build --tag gr-oac . && docker run --rm gr-oac fl_app train --set run.rounds=20
#   docker run --rm gr-oac oac-blocks loopback --clients 5 --snr 10
FROM debian:12-slim
RUN apt-get update && \
    apt-get install --yes --no-install-recommends ca-certificates make python3
WORKDIR /opt/gr-oac
COPY . .
# Installs GNU Radio from apt and the pinned Python packages into .venv.
RUN bash scripts/setup.sh && oac=.venv/bin/oac-blocks && "$oac" --version && "$oac" register && \
    rm -rf /var/lib/apt/lists/* /root/.cache/pip
ENV PATH=/opt/gr-oac/.venv/bin:$PATH
CMD ["fl_app", "--help"]
