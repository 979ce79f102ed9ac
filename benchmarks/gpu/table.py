#!/usr/bin/env python3
"""Prints what gpu_bench measured: table.py FILE.json. It shows medians, arrays relative to the copy and products
relative to fp32."""
import json
import sys


def medians(path):
    with open(path) as file:
        report = json.load(file)
    rows, errors = {}, {}
    for row in report["benchmarks"]:
        name = row["run_name"].removesuffix("/manual_time").split("/")[0]
        if row.get("error_occurred"):
            errors[name] = row.get("error_message", "failed")
        elif row.get("aggregate_name") == "median":
            rows[name] = row
    return report["context"], rows, errors


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: table.py FILE.json, as gpu_bench --benchmark_out=FILE.json writes it")
    try:
        context, rows, errors = medians(sys.argv[1])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"table.py: {sys.argv[1]}: {error}; accepted: the JSON that gpu_bench writes")
    print(f"{context.get('gpu', 'GPU unknown')}; cuBLASLt {context.get('cuBLASLt', 'unknown')}; {context['date']}")
    copy = rows.get("copy float")
    arrays = {name: row for name, row in rows.items() if not name.startswith("product")}
    if arrays:
        print(f"\n{'arrays':34} {'TB/s':>7} {'of copy':>8} {'G elements/s':>13}")
        for name, row in arrays.items():
            share = f"{row['bytes_per_second'] / copy['bytes_per_second']:8.2f}" if copy else " " * 8
            print(f"{name:34} {row['bytes_per_second'] / 1e12:7.2f} {share} {row['items_per_second'] / 1e9:13.0f}")
    products = {name: row for name, row in rows.items() if name.startswith("product")}
    if products:
        print(f"\n{'products (cuBLASLt)':34} {'TFLOP/s':>7} {'of fp32':>8}")
        for name, row in products.items():
            _, precision, size = name.split()
            base = rows.get(f"product fp32 {size}")
            share = f"{row['FLOP/s'] / base['FLOP/s']:8.1f}" if base else " " * 8
            print(f"{precision + ' ' + size:34} {row['FLOP/s'] / 1e12:7.1f} {share}")
    for name, why in errors.items():
        print(f"{name}: skipped: {why}")


if __name__ == "__main__":
    main()
