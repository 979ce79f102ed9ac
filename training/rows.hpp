// Rows that are found by what they are of, in the order in which they first came.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace halfulp::training {

template <class Key, class Row>
class Rows {
 public:
  /// The row of a key; make() where there is none yet.
  template <class Make>
  Row& at(Key key, Make&& make) {
    const auto [place, made] = places_.try_emplace(std::move(key), rows_.size());
    if (made) rows_.push_back(make());
    return rows_[place->second];
  }
  /// All of them; none are left.
  std::vector<Row> take() {
    places_.clear();
    return std::exchange(rows_, {});
  }

 private:
  std::map<Key, std::size_t> places_;
  std::vector<Row> rows_;
};

}  // namespace halfulp::training
