// A file over UDT 4 (Debian's libudt), for comparisons: what the best-known transport for long paths does on the same one. It is neither
// encrypted nor hashed.
//
// `terahaul-bench-udt serve ADDRESS PORT`: says when it listens and, until it is ended, writes what each connection brings to the path
// that the connection names. Only for a lab's own network: whoever reaches it writes wherever it may.
// `terahaul-bench-udt send ADDRESS PORT SOURCE TARGET`: sends a file, and returns when it is written.
//
// A connection carries the length of the target's path and of the file (4 and 8 bytes, the least significant first), the path and the
// file; one byte comes back.

#include <arpa/inet.h>
#include <udt/udt.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

// As much as quinn's driver may have under way. UDT's own default is less than 1 Gbit/s has on 100 ms.
constexpr int WINDOW = 64 << 20;
constexpr int LEAST_PACKET = 1400;
constexpr int PIECE = 1 << 20;
constexpr std::uint32_t LONGEST_PATH = 4096;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + UDT::getlasterror().getErrorMessage());
}

UDTSOCKET new_socket() {
    const UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    const int packets = WINDOW / LEAST_PACKET;
    if (UDT::setsockopt(socket, 0, UDT_FC, &packets, sizeof packets) == UDT::ERROR) fail("window");
    for (const UDTOpt buffer : {UDT_SNDBUF, UDT_RCVBUF, UDP_SNDBUF, UDP_RCVBUF})
        if (UDT::setsockopt(socket, 0, buffer, &WINDOW, sizeof WINDOW) == UDT::ERROR) fail("buffer");
    return socket;
}

sockaddr_in address_of(const char* host, const char* port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) throw std::runtime_error(std::string("no address: ") + host);
    return address;
}

void send_all(UDTSOCKET socket, const void* from, int length) {
    for (int sent = 0; sent < length;) {
        const int now = UDT::send(socket, static_cast<const char*>(from) + sent, length - sent, 0);
        if (now == UDT::ERROR) fail("send");
        sent += now;
    }
}

void receive_all(UDTSOCKET socket, void* into, int length) {
    for (int received = 0; received < length;) {
        const int now = UDT::recv(socket, static_cast<char*>(into) + received, length - received, 0);
        if (now == UDT::ERROR) fail("receive");
        received += now;
    }
}

struct __attribute__((packed)) Head {
    std::uint32_t path;
    std::int64_t file;
};

void receive_file(UDTSOCKET socket) {
    Head head{};
    receive_all(socket, &head, sizeof head);
    if (head.path > LONGEST_PATH || head.file < 0) throw std::runtime_error("not a head");
    std::string path(head.path, '\0');
    receive_all(socket, path.data(), static_cast<int>(path.size()));
    std::fstream file(path, std::ios::out | std::ios::binary | std::ios::trunc);
    std::int64_t offset = 0;
    if (UDT::recvfile(socket, file, offset, head.file, PIECE) == UDT::ERROR) fail("receive");
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
    const char written = 1;
    send_all(socket, &written, 1);
    // The other end closes when it has that byte.
    char nothing;
    UDT::recv(socket, &nothing, 1, 0);
    UDT::close(socket);
}

void serve(const char* host, const char* port) {
    const UDTSOCKET socket = new_socket();
    const sockaddr_in address = address_of(host, port);
    if (UDT::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR) fail("bind");
    if (UDT::listen(socket, 1) == UDT::ERROR) fail("listen");
    std::cout << "listening" << std::endl;
    for (;;) {
        const UDTSOCKET connection = UDT::accept(socket, nullptr, nullptr);
        if (connection == UDT::INVALID_SOCK) fail("accept");
        receive_file(connection);
    }
}

void send(const char* host, const char* port, const char* source, const std::string& target) {
    std::fstream file(source, std::ios::in | std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error(std::string("cannot read ") + source);
    const Head head{static_cast<std::uint32_t>(target.size()), static_cast<std::int64_t>(file.tellg())};
    file.seekg(0);
    const UDTSOCKET socket = new_socket();
    const sockaddr_in address = address_of(host, port);
    if (UDT::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR) fail("connect");
    send_all(socket, &head, sizeof head);
    send_all(socket, target.data(), static_cast<int>(target.size()));
    std::int64_t offset = 0;
    if (UDT::sendfile(socket, file, offset, head.file, PIECE) == UDT::ERROR) fail("send");
    char written = 0;
    receive_all(socket, &written, 1);
    UDT::close(socket);
}

}  // namespace

int main(int count, char** words) {
    const std::string what = count > 1 ? words[1] : "";
    try {
        UDT::startup();
        if (what == "serve" && count == 4) {
            serve(words[2], words[3]);
        } else if (what == "send" && count == 6) {
            send(words[2], words[3], words[4], words[5]);
        } else {
            throw std::runtime_error("usage: serve ADDRESS PORT | send ADDRESS PORT SOURCE TARGET");
        }
        UDT::cleanup();
    } catch (const std::exception& error) {
        std::cerr << "terahaul-bench-udt: " << error.what() << std::endl;
        return 1;
    }
}
